package cuda

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io"
)

//go:generate go run ./gen

//go:embed ptx/*.ptx.gz
var ptxFiles embed.FS

// ptxArchs are the compute capabilities that sources are compiled for, ascending. A device takes the newest that it can run; where the
// newer is no other program, there is only the older one.
var ptxArchs = []int{61, 80}

// ptxFor returns the PTX of a source for a device: that for its very architecture, as sm_90a, which no other runs, or else the
// newest.
func ptxFor(file string, arch int) ([]byte, error) {
	if arch < ptxArchs[0] {
		return nil, fmt.Errorf("cuda: compute capability %d.%d is older than %d.%d, the oldest that qwb has kernels for", arch/10, arch%10,
			ptxArchs[0]/10, ptxArchs[0]%10)
	}
	text, err := readPTX(fmt.Sprintf("%s.sm_%da", file, arch))
	for i := len(ptxArchs) - 1; err != nil && i >= 0; i-- {
		if ptxArchs[i] <= arch {
			text, err = readPTX(fmt.Sprintf("%s.sm_%d", file, ptxArchs[i]))
		}
	}
	return text, err
}

// readPTX returns the text of ptx/NAME.ptx.gz. It is decompressed each time: a device loads a file once.
func readPTX(name string) ([]byte, error) {
	b, err := ptxFiles.ReadFile("ptx/" + name + ".ptx.gz")
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("cuda: %s: %w", name, err)
	}
	return io.ReadAll(z)
}
