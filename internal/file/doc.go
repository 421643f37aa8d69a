// Package file maps files into memory and replaces files as a whole.
package file
