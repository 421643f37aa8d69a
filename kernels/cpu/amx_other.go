//go:build !linux || !amd64

package cpu

import (
	"runtime"

	"golang.org/x/sys/cpu"
)

// amx is not used: only on Linux is it known how a process asks for tiles.
func amx() (granted bool, why string) {
	if cpu.X86.HasAMXTile && cpu.X86.HasAMXInt8 {
		return false, "tiles are used on Linux only, and this is " + runtime.GOOS
	}
	return false, ""
}
