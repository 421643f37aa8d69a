package cpu

import (
	"fmt"
	"sync"
	"syscall"

	"golang.org/x/sys/cpu"
)

// Requests of arch_prctl, and the number of the tiles' data among the extended states (Linux, Documentation/arch/x86/xstate.rst).
const (
	archReqXcompPerm = 0x1023
	xfeatureTileData = 18
)

// amx asks the kernel once for the use of tiles, for all threads of the process. why says what it answered where the processor has them.
var amx = sync.OnceValues(func() (granted bool, why string) {
	if !cpu.X86.HasAMXTile || !cpu.X86.HasAMXInt8 {
		return false, ""
	}
	if _, _, errno := syscall.RawSyscall(syscall.SYS_ARCH_PRCTL, archReqXcompPerm, xfeatureTileData, 0); errno != 0 {
		return false, fmt.Sprintf("the system does not grant its tiles: arch_prctl(ARCH_REQ_XCOMP_PERM): %v", errno)
	}
	return true, ""
})
