//go:build !nocuda && (amd64 || arm64) && (windows || (linux && !android))

package driver

import "unsafe"

// maxParameters is the parameter space of a kernel on every GPU, in bytes.
const maxParameters = 4096

// launchArguments is what a launch hands over by address: the list that says where the parameter space is and how large, and the
// space. One allocation that is used again.
type launchArguments struct {
	extra      [5]uintptr
	size       uintptr
	parameters [maxParameters / 8]uint64
}

// Keys in the list: CU_LAUNCH_PARAM_.
const (
	launchEnd           = 0
	launchBufferPointer = 1
	launchBufferSize    = 2
)

func (l *library) Launch(c Context, f Function, grid, block Dim, shared int, s Stream, params []byte) error {
	if len(params) > maxParameters {
		return l.result(&l.launchKernel, InvalidValue)
	}
	a := l.launches.Get().(*launchArguments)
	defer l.launches.Put(a)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&a.parameters)), maxParameters), params)
	a.size = uintptr(len(params))
	a.extra = [5]uintptr{launchBufferPointer, uintptr(unsafe.Pointer(&a.parameters)), launchBufferSize,
		uintptr(unsafe.Pointer(&a.size)), launchEnd}
	return callIn(l, c, &l.launchKernel, uintptr(f), uintptr(grid.X), uintptr(grid.Y), uintptr(grid.Z), uintptr(block.X),
		uintptr(block.Y), uintptr(block.Z), uintptr(shared), uintptr(s), 0, uintptr(unsafe.Pointer(a)))
}

// BeginCapture captures in the relaxed mode: the others forbid calls to the thread that captures, or to all, and want the capture
// ended by the thread that began it, while a goroutine changes threads.
func (l *library) BeginCapture(c Context, s Stream) error {
	const relaxed = 2
	return callIn(l, c, &l.streamBeginCapture, uintptr(s), relaxed)
}

func (l *library) EndCapture(c Context, s Stream) (Graph, error) {
	var g Graph
	err := callIn(l, c, &l.streamEndCapture, uintptr(s), uintptr(unsafe.Pointer(&g)))
	return g, err
}

func (l *library) GraphInstantiate(c Context, g Graph) (GraphExec, error) {
	var e GraphExec
	if l.graphInstantiateWithFlags.address != 0 {
		err := callIn(l, c, &l.graphInstantiateWithFlags, uintptr(unsafe.Pointer(&e)), uintptr(g), 0)
		return e, err
	}
	var node uintptr
	var log [1024]byte
	err := callIn(l, c, &l.graphInstantiate, uintptr(unsafe.Pointer(&e)), uintptr(g), uintptr(unsafe.Pointer(&node)),
		uintptr(unsafe.Pointer(&log)), uintptr(len(log)-1))
	if r, ok := err.(*Result); ok {
		r.Log = goString(&log[0])
	}
	return e, err
}

func (l *library) GraphLaunch(c Context, e GraphExec, s Stream) error {
	return callIn(l, c, &l.graphLaunch, uintptr(e), uintptr(s))
}

func (l *library) GraphDestroy(c Context, g Graph) error {
	return callIn(l, c, &l.graphDestroy, uintptr(g))
}

func (l *library) GraphExecDestroy(c Context, e GraphExec) error {
	return callIn(l, c, &l.graphExecDestroy, uintptr(e))
}
