// Package file opens files, maps them into memory and replaces them as a whole.
package file
