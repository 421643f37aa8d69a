//go:build purego || !amd64

package kernels

// vectorCodesRows is empty: rows on bytes are in plain Go.
func vectorCodesRows() []Row { return nil }
