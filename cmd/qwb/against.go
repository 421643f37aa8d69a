package main

import (
	"context"
	"errors"

	"qwb/analysis"
	"qwb/kernels/qmath"
)

func (e *env) verifyAgainst(ctx context.Context, p *planned, profile qmath.Profile, o verifyOptions) (*analysis.Verification, error) {
	return nil, errors.New("verify: --against")
}
