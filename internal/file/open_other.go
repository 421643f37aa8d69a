//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package file

// withoutWaiting: names of this system lead to no pipes.
const withoutWaiting = 0
