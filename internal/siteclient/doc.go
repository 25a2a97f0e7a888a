// Package siteclient is the results site's API as a program calls it. It is
// generated from the contract that the site serves: oapi-codegen.yaml says how.
package siteclient
