package cuda

import "fmt"

// Pinned is memory of the host that the device reads and writes by itself: copies to and from it run while the host does other
// work, and can be captured in a graph. Copies of other memory wait until they are done.
type Pinned struct {
	device *Device
	bytes  []byte
}

// HostAlloc returns pinned memory, zeroed. It is a scarce kind of memory: allocate it once and keep it. Close it before the device.
func (d *Device) HostAlloc(bytes int) (*Pinned, error) {
	if bytes <= 0 {
		return nil, fmt.Errorf("cuda: %d bytes of pinned memory", bytes)
	}
	b, err := d.api.HostAlloc(d.context, bytes)
	if err != nil {
		return nil, fmt.Errorf("cuda: no %d bytes of pinned memory: %w", bytes, err)
	}
	clear(b)
	return &Pinned{device: d, bytes: b}, nil
}

// Bytes returns the memory. A slice of it is as good; none may be used after Close.
func (p *Pinned) Bytes() []byte { return p.bytes }

// Close gives the memory back. No copy of it may be under way.
func (p *Pinned) Close() error {
	if p.bytes == nil {
		return nil
	}
	b := p.bytes
	p.bytes = nil
	return p.device.api.HostFree(p.device.context, b)
}
