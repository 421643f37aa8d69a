package file

// LockFolder waits until no other process holds the lock of a folder and takes it; unlock gives it back. Nothing is written: the lock is
// one of the system, and ends with the process. Where the system or the file system has no such locks it does nothing.
func LockFolder(dir string) (unlock func()) { return lockFolder(dir) }
