//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package file

import "os"

func lockFolder(string) func() { return func() {} }

func tryLock(*os.File) Lock { return NoLocks }
