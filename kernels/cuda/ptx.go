package cuda

import (
	"embed"
	"fmt"
)

//go:generate go run ./gen

//go:embed ptx/*.ptx
var ptxFiles embed.FS

// ptxArchs are the compute capabilities that sources are compiled for, ascending. A device takes the newest that it can run.
var ptxArchs = []int{61, 80}

// ptxFor returns the PTX of a source for a device: that for its very architecture, as sm_90a, which no other runs, or else the
// newest.
func ptxFor(file string, arch int) ([]byte, error) {
	if text, err := ptxFiles.ReadFile(fmt.Sprintf("ptx/%s.sm_%da.ptx", file, arch)); err == nil {
		return text, nil
	}
	for i := len(ptxArchs) - 1; i >= 0; i-- {
		if ptxArchs[i] <= arch {
			return ptxFiles.ReadFile(fmt.Sprintf("ptx/%s.sm_%d.ptx", file, ptxArchs[i]))
		}
	}
	return nil, fmt.Errorf("cuda: compute capability %d.%d is older than %d.%d, the oldest that qwb has kernels for", arch/10, arch%10,
		ptxArchs[0]/10, ptxArchs[0]%10)
}
