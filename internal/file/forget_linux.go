package file

import "syscall"

// forget gives whole pages of a file that is mapped for reading back to the system.
func forget(pages []byte) { _ = syscall.Madvise(pages, syscall.MADV_DONTNEED) }
