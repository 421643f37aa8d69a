//go:build !race

package decode_test

const racing = false
