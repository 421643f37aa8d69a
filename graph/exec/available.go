package exec

import (
	"bytes"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
)

// unknownMemory is the budget on systems that do not say how much memory they have.
const unknownMemory = 2<<30 - 1

// defaultMemory is the budget of a run that sets none: half of what the machine, or the container, has.
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
	for _, file := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if b, err := read(file); err == nil {
			if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && n > 0 {
				least = min(least, n)
			}
		}
	}
	if least == math.MaxInt64 {
		return 0
	}
	return least
}
