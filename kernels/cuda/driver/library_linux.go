//go:build !nocuda && (amd64 || arm64) && !android

package driver

import (
	"runtime"

	"github.com/ebitengine/purego"
)

// libraryNames are where the driver may be: the linker's path, Windows' Linux, NixOS.
var libraryNames = []string{"libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1", "/run/opengl-driver/lib/libcuda.so.1"}

// load opens a library. Why it cannot be is kept by thread.
func load(name string) (uintptr, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
}

// lookup returns the address of a function, 0 where the library does not have it.
func lookup(handle uintptr, name string) uintptr {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	address, err := purego.Dlsym(handle, name)
	if err != nil {
		return 0
	}
	return address
}

// invoke calls a function of the driver.
//
//go:uintptrescapes
func invoke(f uintptr, arguments ...uintptr) int32 {
	code, _, _ := purego.SyscallN(f, arguments...)
	return int32(code)
}
