package main

import (
	"fmt"
	"slices"

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

// backendNamed finds a backend. One that exists but not here is a failure, another name a wrong argument.
func backendNamed(name string) (program.Backend, error) {
	c := &qwb.Catalog{Backends: offered()}
	if err := options.CheckBackend(c, name); err != nil {
		return program.Backend{}, err
	}
	b := c.Backends[slices.Index(options.Backends(c), name)]
	return b, present(b)
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
