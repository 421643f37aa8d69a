package main

import (
	"fmt"
	"strings"

	"qwb"
	"qwb/internal/gpu"
	"qwb/internal/options"
	"qwb/quantizer/program"
	"qwb/quantizer/program/cpu"
)

// offered are the backends that run integers, the reference first.
func offered() []program.Backend {
	return append([]program.Backend{program.Reference, cpu.Backend}, gpu.Backends()...)
}

// defaultBackend is the one behind the reference: the CPU's kernels.
func defaultBackend() program.Backend {
	return offered()[1]
}

// backendNamed finds a backend. One that exists but not here is a failure, another name a wrong argument.
func backendNamed(name string) (program.Backend, error) {
	b, err := knownBackend(name)
	if err != nil {
		return b, err
	}
	return b, present(b)
}

// knownBackend finds a backend, which need not be here.
func knownBackend(name string) (program.Backend, error) {
	for _, b := range offered() {
		if b.Name == name {
			return b, nil
		}
	}
	return program.Backend{}, usagef("unknown backend %q: one of %s", name, strings.Join(options.Backends(&qwb.Catalog{Backends: offered()}), ", "))
}

// present says why a backend is not here.
func present(b program.Backend) error {
	if b.Missing == nil {
		return nil
	}
	if err := b.Missing(); err != nil {
		return fmt.Errorf("backend %s: %w", b.Name, err)
	}
	return nil
}
