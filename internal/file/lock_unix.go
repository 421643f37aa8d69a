//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package file

import (
	"errors"
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

func tryLock(f *os.File) Lock {
	switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case err == nil:
		return Held
	case errors.Is(err, syscall.EWOULDBLOCK):
		return Busy
	}
	return NoLocks
}
