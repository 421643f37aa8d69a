package exec

import (
	"bytes"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// unknownMemory is the budget on systems that do not say how much memory they have.
const unknownMemory = 2<<30 - 1

// defaultMemory is the budget of a run that sets none: half of what the machine, or the container, has,
// or of what is left of a limited address space.
var defaultMemory = sync.OnceValue(func() int64 {
	if n := machineMemory(os.ReadFile); n > 0 {
		return n / 2
	}
	return unknownMemory
})

// machineMemory returns how many bytes of memory the process may have at most, as Linux tells in files; 0 if it does not.
func machineMemory(read func(string) ([]byte, error)) int64 {
	least := int64(math.MaxInt64)
	if b, err := read("/proc/meminfo"); err == nil {
		for line := range bytes.Lines(b) {
			f := strings.Fields(string(line))
			if len(f) >= 2 && f[0] == "MemTotal:" {
				if kib, err := strconv.ParseInt(f[1], 10, 64); err == nil && kib > 0 && kib < 1<<50 {
					least = kib << 10
				}
			}
		}
	}
	for _, file := range groupLimits(read) {
		if b, err := read(file); err == nil {
			if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && n > 0 {
				least = min(least, n)
			}
		}
	}
	if n := addressSpace(read); n > 0 {
		least = min(least, n)
	}
	if least == math.MaxInt64 {
		return 0
	}
	return least
}

// groupLimits are the files that may hold a limit of the memory of the process's control group or of one that it is in. A container sees
// its own at the root; a scope of systemd or a job of a batch queue lies deeper.
func groupLimits(read func(string) ([]byte, error)) (files []string) {
	groups, _ := read("/proc/self/cgroup") // without it the roots remain
	for _, v := range [...]struct{ root, controller, file string }{
		{"/sys/fs/cgroup", "", "memory.max"}, {"/sys/fs/cgroup/memory", "memory", "memory.limit_in_bytes"}} {
		group := "/"
		for line := range strings.Lines(string(groups)) {
			f := strings.SplitN(strings.TrimSpace(line), ":", 3)
			if len(f) == 3 && slices.Contains(strings.Split(f[1], ","), v.controller) {
				group = path.Join("/", f[2])
			}
		}
		for ; group != "/"; group = path.Dir(group) {
			files = append(files, path.Join(v.root, group, v.file))
		}
		files = append(files, path.Join(v.root, v.file))
	}
	return files
}

// addressSpace returns what is left of the address space that the process may have (ulimit -v); 0 if that has no limit.
func addressSpace(read func(string) ([]byte, error)) int64 {
	limits, err := read("/proc/self/limits")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(limits)) {
		rest, ok := strings.CutPrefix(line, "Max address space")
		f := strings.Fields(rest)
		if !ok || len(f) == 0 {
			continue
		}
		limit, err := strconv.ParseInt(f[0], 10, 64)
		if err != nil || limit <= 0 {
			return 0 // unlimited
		}
		return max(limit-addressSpaceInUse(read), 1)
	}
	return 0
}

// addressSpaceInUse is what the process has mapped or reserved already, 0 if that is not told.
func addressSpaceInUse(read func(string) ([]byte, error)) int64 {
	status, err := read("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmSize:"); ok {
			if f := strings.Fields(rest); len(f) > 0 {
				if kib, err := strconv.ParseInt(f[0], 10, 64); err == nil && kib > 0 && kib < 1<<50 {
					return kib << 10
				}
			}
		}
	}
	return 0
}

// AvailableMemory is how many bytes the process may take: what the machine or the container has, or less where the address space is
// limited; 0 if the system does not say.
func AvailableMemory() int64 { return machineMemory(os.ReadFile) }
