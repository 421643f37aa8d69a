//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package file

import (
	"os"
	"syscall"
)

func lockFolder(dir string) func() {
	f, err := os.Open(dir)
	if err != nil {
		return func() {}
	}
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX) != nil {
		f.Close()
		return func() {}
	}
	return func() { f.Close() } // which gives the lock back
}
