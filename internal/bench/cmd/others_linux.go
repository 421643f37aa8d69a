package cmd

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// othersCPU returns the CPU time that was used until now by all but this process, over all cores: what /proc/stat counts as
// neither idle nor waiting, less the process's own. Time that a hypervisor took away is in it. The unit of /proc/stat is a
// hundredth of a second.
func othersCPU() (time.Duration, bool) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, false
	}
	line, _, _ := strings.Cut(string(stat), "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, false
	}
	const idle, waiting, guest = 4, 5, 9 // guest time and what follows is in user time already
	var busy time.Duration
	for i, f := range fields[:min(len(fields), guest)] {
		ticks, err := strconv.ParseInt(f, 10, 64)
		if i == 0 || i == idle || i == waiting {
			continue
		}
		if err != nil {
			return 0, false
		}
		busy += time.Duration(ticks) * 10 * time.Millisecond
	}
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		return 0, false
	}
	return busy - time.Duration(own.Utime.Nano()+own.Stime.Nano()), true
}

// cpuModel is the processor's name.
func cpuModel() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(info)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
