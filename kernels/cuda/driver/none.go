//go:build nocuda || !(amd64 || arm64) || !(windows || linux) || android

package driver

import (
	"fmt"
	"runtime"
)

// Open fails: this build has no binding to a driver.
func Open() (API, error) {
	system := runtime.GOOS + "/" + runtime.GOARCH
	switch system {
	case "linux/amd64", "linux/arm64", "windows/amd64", "windows/arm64":
		return nil, fmt.Errorf("%w (tag nocuda)", ErrNotBuilt)
	}
	return nil, fmt.Errorf("%w (none for %s)", ErrNotBuilt, system)
}

// OpenFile fails as Open does.
func OpenFile(string) (API, error) { return Open() }
