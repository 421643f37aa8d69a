//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package file

import "syscall"

// withoutWaiting makes an open of a pipe or a device return at once.
const withoutWaiting = syscall.O_NONBLOCK
