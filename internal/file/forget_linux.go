package file

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// forget gives whole pages of a file that is mapped for reading back to the system.
func forget(pages []byte) { _ = syscall.Madvise(pages, syscall.MADV_DONTNEED) }

// smallPages keeps the system from mapping two megabytes where one byte is read.
func smallPages(b []byte) { _ = syscall.Madvise(b, syscall.MADV_NOHUGEPAGE) }

// residentFiles is how many bytes of files the process has in its memory now, -1 where the system does not say.
func residentFiles() int64 {
	b, err := os.ReadFile("/proc/self/statm") // pages: size, resident, shared ...
	fields := bytes.Fields(b)
	if err != nil || len(fields) < 3 {
		return -1
	}
	n, err := strconv.ParseInt(string(fields[2]), 10, 64)
	if err != nil {
		return -1
	}
	return n * int64(os.Getpagesize())
}
