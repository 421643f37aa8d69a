//go:build !nocuda && (amd64 || arm64) && (windows || (linux && !android))

package driver

import (
	"runtime"
	"slices"
	"unsafe"
)

func (l *library) MemAlloc(c Context, bytes int) (Ptr, error) {
	var p Ptr
	err := callIn(l, c, &l.memAlloc, uintptr(unsafe.Pointer(&p)), uintptr(bytes))
	return p, err
}

func (l *library) MemFree(c Context, p Ptr) error { return callIn(l, c, &l.memFree, uintptr(p)) }

func (l *library) HostAlloc(c Context, bytes int) ([]byte, error) {
	const portable = 1 // pinned for every context
	var p *byte
	if err := callIn(l, c, &l.memHostAlloc, uintptr(unsafe.Pointer(&p)), uintptr(bytes), portable); err != nil {
		return nil, err
	}
	l.pinning.Lock()
	defer l.pinning.Unlock()
	ranges := slices.Clone(l.ranges())
	base := uintptr(unsafe.Pointer(p))
	i, _ := slices.BinarySearchFunc(ranges, base, compareBase)
	ranges = slices.Insert(ranges, i, hostRange{base, bytes})
	l.pinned.Store(&ranges)
	return unsafe.Slice(p, bytes), nil
}

func (l *library) HostFree(c Context, b []byte) error {
	base := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	l.pinning.Lock()
	defer l.pinning.Unlock()
	ranges := slices.Clone(l.ranges())
	i, ok := slices.BinarySearchFunc(ranges, base, compareBase)
	if !ok {
		return l.result(&l.memFreeHost, InvalidValue)
	}
	// Unknown before it is free: from then on the same address may be anybody's.
	ranges = slices.Delete(ranges, i, i+1)
	l.pinned.Store(&ranges)
	return callIn(l, c, &l.memFreeHost, base)
}

func (l *library) ranges() []hostRange {
	if r := l.pinned.Load(); r != nil {
		return *r
	}
	return nil
}

func compareBase(r hostRange, base uintptr) int {
	switch {
	case r.base < base:
		return -1
	case r.base > base:
		return 1
	}
	return 0
}

// isPinned reports whether b lies in memory of HostAlloc.
func (l *library) isPinned(b []byte) bool {
	base := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	ranges := l.ranges()
	i, ok := slices.BinarySearchFunc(ranges, base, compareBase)
	if !ok {
		i-- // the range that begins before
	}
	return i >= 0 && base+uintptr(len(b)) <= ranges[i].base+uintptr(ranges[i].size)
}

// CopyToDevice and CopyToHost wait for the end of the copy where the host's memory is not pinned. The driver's promise for such
// memory is weaker: it "might" have been read on return, and is not on systems whose GPU reads pageable memory by itself. And the
// memory is Go's, which may free it once nobody holds it.
func (l *library) CopyToDevice(c Context, dst Ptr, src []byte, s Stream) error {
	if len(src) == 0 {
		return nil
	}
	return l.copyHost(c, &l.memcpyHtoDAsync, src, s, func(host uintptr) error {
		return callIn(l, c, &l.memcpyHtoDAsync, uintptr(dst), host, uintptr(len(src)), uintptr(s))
	})
}

// CopyToHost copies from the device.
func (l *library) CopyToHost(c Context, dst []byte, src Ptr, s Stream) error {
	if len(dst) == 0 {
		return nil
	}
	return l.copyHost(c, &l.memcpyDtoHAsync, dst, s, func(host uintptr) error {
		return callIn(l, c, &l.memcpyDtoHAsync, host, uintptr(src), uintptr(len(dst)), uintptr(s))
	})
}

func (l *library) copyHost(c Context, f *symbol, host []byte, s Stream, start func(host uintptr) error) error {
	address := unsafe.SliceData(host)
	if l.isPinned(host) {
		return start(uintptr(unsafe.Pointer(address)))
	}
	var capturing int32
	if err := callIn(l, c, &l.streamIsCapturing, uintptr(s), uintptr(unsafe.Pointer(&capturing))); err != nil {
		return err
	}
	if capturing != 0 {
		r := l.result(f, CaptureUnsupported)
		r.Text += ": a copy of memory that is not pinned"
		return r
	}
	var pin runtime.Pinner
	pin.Pin(address)
	defer pin.Unpin()
	if err := start(uintptr(unsafe.Pointer(address))); err != nil {
		return err
	}
	return callIn(l, c, &l.streamSynchronize, uintptr(s))
}

func (l *library) CopyOnDevice(c Context, dst, src Ptr, bytes int, s Stream) error {
	if bytes == 0 {
		return nil
	}
	return callIn(l, c, &l.memcpyDtoDAsync, uintptr(dst), uintptr(src), uintptr(bytes), uintptr(s))
}

func (l *library) SetBytes(c Context, dst Ptr, value byte, bytes int, s Stream) error {
	if bytes == 0 {
		return nil
	}
	return callIn(l, c, &l.memsetD8Async, uintptr(dst), uintptr(value), uintptr(bytes), uintptr(s))
}
