//go:build !nocuda && (amd64 || arm64)

package driver

import (
	"path/filepath"
	"syscall"

	"golang.org/x/sys/windows"
)

// libraryNames are where the driver may be.
var libraryNames = []string{"nvcuda.dll"}

// load takes a bare name from the system's folder only.
func load(name string) (uintptr, error) {
	var flags uintptr
	if filepath.Base(name) == name {
		flags = windows.LOAD_LIBRARY_SEARCH_SYSTEM32
	}
	h, err := windows.LoadLibraryEx(name, 0, flags)
	if err != nil {
		return 0, &windows.DLLError{Err: err, ObjName: name, Msg: name + ": " + err.Error()}
	}
	return uintptr(h), nil
}

// lookup returns the address of a function, 0 where the library does not have it.
func lookup(handle uintptr, name string) uintptr {
	address, err := windows.GetProcAddress(windows.Handle(handle), name)
	if err != nil {
		return 0
	}
	return address
}

// invoke calls a function of the driver.
//
//go:uintptrescapes
func invoke(f uintptr, arguments ...uintptr) int32 {
	code, _, _ := syscall.SyscallN(f, arguments...)
	return int32(code)
}
