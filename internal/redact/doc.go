// Package redact takes secrets and identities out of text: keys, tokens,
// passwords, user names, home folders, host names, addresses, serial numbers.
// What stood there is named in its place: «redacted: api key». Ordinary text
// (model names, versions, numbers, loopback addresses, paths below a home folder)
// stays as it is, and text that was redacted already does not change.
//
// A secret is found in three ways: by its value, where it is known; by its shape,
// where a service marks its keys; by its name, where it stands behind one
// (--api-key, TOKEN=, "password":).
package redact
