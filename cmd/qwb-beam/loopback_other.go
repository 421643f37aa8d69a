//go:build !linux

package main

import "errors"

func loopbackOnly() (int, error) { return 0, errors.ErrUnsupported }
