// Command qwb takes a trained float ONNX model to a deployable INT8 one and shows what that did to it. See README.md.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"qwb/graph/exec"
)

func main() {
	respectLimits()
	garbage()
	ctx, stop := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go interrupts(signals, stop)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// patience is how long a command that was interrupted may take to end: what is worth it is written down. One that waits for the system, a
// disk of another machine for one, would never end by itself.
const patience = 20 * time.Second

// interrupts ends the command: the first signal asks it to end, a second one, or the end of patience, ends the process.
func interrupts(signals <-chan os.Signal, stop context.CancelFunc) {
	<-signals
	stop()
	select {
	case <-signals:
	case <-time.After(patience):
	}
	fmt.Fprintln(os.Stderr, "qwb: interrupted")
	os.Exit(exitFailed)
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
