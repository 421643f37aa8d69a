// Package emulate is a driver that interprets PTX. Kernels run on the CPU, one instruction of a warp at a time, with checks that no
// device makes: every access lies within a live allocation and is aligned, nothing is read that was not written, threads of a block do
// not access the same shared byte without a barrier, copies by cp.async and products by wgmma are waited for, and barriers and
// warp-wide instructions find their threads together. What a kernel does wrong is the error of its launch, with the line of PTX.
//
// Integers and the floating-point instructions that PTX defines to the last bit give exactly what a device gives. The approximate ones
// (ex2, lg2, sin, cos, rsqrt, rcp and div with .approx) are those of the host.
//
// Unstable: it may change without notice.
package emulate

// Options says how kernels run.
type Options struct {
	// Initcheck makes reading memory that nothing has written an error.
	Initcheck bool
	// Racecheck makes unordered accesses of threads of a block to one byte of shared memory an error.
	Racecheck bool
	// Blockcheck makes it an error when blocks of a launch access one byte of global memory, one of them writing, with no atomics that
	// could order them. Blocks then run one after the other, and their accesses take several times as long.
	Blockcheck bool
	// Omissions, if there are any, are tried with every launch.
	Omissions *Omissions
	// Budget is how many instructions of warps a launch may run, 0 for any number.
	Budget int64
	// Workers is the number of blocks that run at once, 0 for GOMAXPROCS.
	Workers int
	// Memory is the global memory of the device in bytes.
	Memory int64
}

// Checked is every check, for tests.
var Checked = Options{Initcheck: true, Racecheck: true, Budget: 1 << 32, Memory: 8 << 30}

// Fast leaves out the checks that cost most, for programs that are known to be right.
var Fast = Options{Memory: 64 << 30}

// New returns a driver with one device of an architecture, 61, 80 or 90, that makes every check.
func New(arch int) *Driver { return Open(arch, Checked) }

// Open returns a driver with one device.
func Open(arch int, options Options) *Driver {
	return &Driver{arch: arch, options: options, memory: newMemory(options.Memory), handles: map[uintptr]any{}}
}
