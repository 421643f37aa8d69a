//go:build !race

package exec_test

const racing = false
