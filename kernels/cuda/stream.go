package cuda

import (
	"fmt"
	"unsafe"

	"qwb/kernels/cuda/driver"
)

// Buffer is a range of device memory.
type Buffer struct {
	Ptr   driver.Ptr
	Bytes int
}

// Slice returns n bytes of b from an offset on. It panics where b does not have them, as slicing does.
func (b Buffer) Slice(offset, n int) Buffer {
	if offset < 0 || n < 0 || offset > b.Bytes || n > b.Bytes-offset {
		panic(fmt.Sprintf("cuda: %d bytes from %d of a buffer of %d", n, offset, b.Bytes))
	}
	return Buffer{Ptr: b.Ptr + driver.Ptr(offset), Bytes: n}
}

// Stream is a queue of work for the device: what is put on it runs in order.
type Stream struct {
	Device *Device
	handle driver.Stream
}

// NewStream returns an empty stream.
func (d *Device) NewStream() (*Stream, error) {
	s, err := d.api.StreamCreate(d.context)
	if err != nil {
		return nil, err
	}
	return &Stream{Device: d, handle: s}, nil
}

// Close destroys the stream when its work is done.
func (s *Stream) Close() error { return s.Device.api.StreamDestroy(s.Device.context, s.handle) }

// Synchronize waits until all work is done and returns what failed in it.
func (s *Stream) Synchronize() error {
	return s.Device.api.StreamSynchronize(s.Device.context, s.handle)
}

// Upload copies src to the beginning of dst. Pinned memory must not change before the stream has come there; other memory has been
// read when Upload returns, which waits for the stream.
func (s *Stream) Upload(dst Buffer, src []byte) error {
	if len(src) > dst.Bytes {
		return fmt.Errorf("cuda: %d bytes for a buffer of %d", len(src), dst.Bytes)
	}
	if len(src) == 0 {
		return nil
	}
	return s.Device.api.CopyToDevice(s.Device.context, dst.Ptr, src, s.handle)
}

// Download copies the beginning of src to dst. Pinned memory is filled when the stream has come there; other memory when Download
// returns, which waits for the stream.
func (s *Stream) Download(dst []byte, src Buffer) error {
	if len(dst) > src.Bytes {
		return fmt.Errorf("cuda: %d bytes from a buffer of %d", len(dst), src.Bytes)
	}
	if len(dst) == 0 {
		return nil
	}
	return s.Device.api.CopyToHost(s.Device.context, dst, src.Ptr, s.handle)
}

// Copy copies src to the beginning of dst.
func (s *Stream) Copy(dst, src Buffer) error {
	if src.Bytes > dst.Bytes {
		return fmt.Errorf("cuda: %d bytes for a buffer of %d", src.Bytes, dst.Bytes)
	}
	if src.Bytes == 0 {
		return nil
	}
	return s.Device.api.CopyOnDevice(s.Device.context, dst.Ptr, src.Ptr, src.Bytes, s.handle)
}

// Fill sets every byte of dst.
func (s *Stream) Fill(dst Buffer, value byte) error {
	if dst.Bytes == 0 {
		return nil
	}
	return s.Device.api.SetBytes(s.Device.context, dst.Ptr, value, dst.Bytes, s.handle)
}

// Launch puts a kernel on a stream. P is a struct without Go pointers that has the layout of the kernel's one parameter; shared is
// the dynamic shared memory of a block in bytes.
func Launch[P any](s *Stream, k *Kernel, grid, block driver.Dim, shared int, p *P) error {
	if grid.Count() == 0 {
		return nil
	}
	if err := s.Device.allow(k, shared); err != nil {
		return fmt.Errorf("cuda: %s: %d bytes of shared memory: %w", k.Name, shared, err)
	}
	params := unsafe.Slice((*byte)(unsafe.Pointer(p)), int(unsafe.Sizeof(*p)))
	if err := s.Device.api.Launch(s.Device.context, k.function, grid, block, shared, s.handle, params); err != nil {
		return fmt.Errorf("cuda: %s: %w", k.Name, err)
	}
	return nil
}
