// Command qwb takes a trained float ONNX model to a deployable INT8 one and shows what that did to it. See README.md.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"qwb/graph/exec"
)

func main() {
	respectLimits()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// respectLimits lets the garbage collector work harder before the process has all the memory that it may have (ulimit -v, a container):
// the limit is half of that, unless the user has set one. The rest is for what is mapped, stacks, and what the collector cannot
// move together. Results do not depend on it.
func respectLimits() {
	if os.Getenv("GOMEMLIMIT") == "" {
		if n := exec.AvailableMemory(); n > 0 {
			debug.SetMemoryLimit(n / 2)
		}
	}
}
