package file

import "os"

// LockFolder waits until no other process holds the lock of a folder and takes it; unlock gives it back. Nothing is written: the lock is
// one of the system, and ends with the process. Where the system or the file system has no such locks it does nothing.
func LockFolder(dir string) (unlock func()) { return lockFolder(dir) }

// Lock says what became of an attempt to lock a file.
type Lock uint8

const (
	NoLocks Lock = iota // the system or the file system has none
	Held
	Busy // somebody else holds it
)

// TryLock takes the lock of an open file or folder if nobody holds it. It ends when the file is closed, or with the process.
func TryLock(f *os.File) Lock { return tryLock(f) }
