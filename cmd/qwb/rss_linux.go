package main

import (
	"strconv"
	"strings"

	"qwb/internal/file"
)

// peakRSS returns the largest resident set of this process so far, in bytes. It reads the mark of the address space: what
// getrusage says includes the process that started this one.
func peakRSS() int64 {
	status, err := file.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kb * 1024
		}
	}
	return 0
}
