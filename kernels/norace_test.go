//go:build !race

package kernels_test

const racing = false
