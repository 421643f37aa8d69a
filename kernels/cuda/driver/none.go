//go:build nocuda || !(amd64 || arm64) || !(windows || linux) || android

package driver

import (
	"fmt"
	"runtime"
)

// Open fails: this build has no binding to a driver.
func Open() (API, error) {
	return nil, fmt.Errorf("%w (%s/%s, tag nocuda or a system without an NVIDIA driver)", ErrNotBuilt, runtime.GOOS, runtime.GOARCH)
}

// OpenFile fails as Open does.
func OpenFile(string) (API, error) { return Open() }
