// Package site is the pages of a results site: what people read of runs, and
// how they upload, publish and moderate them. It knows interfaces alone: the
// index answers what lists ask, the store and the files hold one run's record,
// the service of package ingest changes it. Every page is complete without a
// script, and none loads anything from elsewhere.
package site
