package emulate

import (
	"fmt"
	"strings"

	"qwb/kernels/cuda/driver"
)

// fault is what a kernel did that a device would not survive, or that has no defined result.
type fault struct {
	code   int
	kernel string
	op     *operation
	block  [3]int
	thread [3]int
	what   string
}

func (f *fault) String() string {
	return fmt.Sprintf("kernel %s: %s: block (%d,%d,%d) thread (%d,%d,%d): %s", f.kernel, f.op.where(),
		f.block[0], f.block[1], f.block[2], f.thread[0], f.thread[1], f.thread[2], f.what)
}

// where names an instruction by its line of PTX and its text.
func (op *operation) where() string { return fmt.Sprintf("line %d: %s", op.line, op.text) }

// fail records the first fault of the warp at the instruction that runs.
func (w *warp) fail(code, lane int, format string, args ...any) {
	if w.fault != nil {
		return
	}
	b := w.b
	w.fault = &fault{code: code, kernel: b.l.program.name, op: w.code[w.pc].source, block: b.at, thread: w.thread(lane),
		what: fmt.Sprintf(format, args...)}
}

// thread returns the index of a lane in the block.
func (w *warp) thread(lane int) [3]int {
	n, d := w.index*warpSize+lane, w.b.l.block
	return [3]int{n % int(d.X), n / int(d.X) % int(d.Y), n / int(d.X) / int(d.Y)}
}

// laneList formats lanes as 0-3,7.
func laneList(m uint32) string {
	var out []string
	for i := 0; i < warpSize; i++ {
		if m>>i&1 == 0 {
			continue
		}
		j := i
		for j+1 < warpSize && m>>(j+1)&1 != 0 {
			j++
		}
		if i == j {
			out = append(out, fmt.Sprint(i))
		} else {
			out = append(out, fmt.Sprintf("%d-%d", i, j))
		}
		i = j
	}
	return strings.Join(out, ",")
}

// results are the names and texts of the driver's error codes.
var results = map[int][2]string{
	driver.InvalidValue:    {"CUDA_ERROR_INVALID_VALUE", "invalid argument"},
	driver.OutOfMemory:     {"CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
	driver.NotInitialized:  {"CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
	driver.InvalidDevice:   {"CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
	driver.InvalidPTX:      {"CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
	driver.InvalidHandle:   {"CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
	driver.NotFound:        {"CUDA_ERROR_NOT_FOUND", "named symbol not found"},
	driver.IllegalAddress:  {"CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
	driver.LaunchResources: {"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
	driver.LaunchFailed:    {"CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
	invalidContext:         {"CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
	launchTimeout:          {"CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
	misaligned:             {"CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
	illegalInstruction:     {"CUDA_ERROR_ILLEGAL_INSTRUCTION", "an illegal instruction was encountered"},
	captureUnsupported:     {"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
	captureUnjoined:        {"CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
	illegalState:           {"CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
}

// Codes of the driver that only this package gives.
const (
	invalidContext     = 201
	illegalState       = 401
	launchTimeout      = 702
	illegalInstruction = 715
	misaligned         = 716
	captureUnsupported = 900
	captureUnjoined    = 904
)

// failure returns an error of the driver.
func failure(call string, code int, format string, args ...any) *driver.Result {
	r := results[code]
	return &driver.Result{Code: code, Name: r[0], Text: r[1], Call: call, Log: fmt.Sprintf(format, args...)}
}

func threadName(t [3]int) string { return fmt.Sprintf("(%d,%d,%d)", t[0], t[1], t[2]) }
