package main

import (
	"encoding/gob"
	"os"
)

type dump struct {
	Convs map[string][]float32
	Norms map[string][4][]float32
	FB    []float32
}

func writeModel(out string, net *network, seed uint64) error {
	d := dump{map[string][]float32{}, map[string][4][]float32{}, net.fb.x}
	for k, v := range net.convs {
		d.Convs[k] = v.x
	}
	for k, v := range net.norms {
		d.Norms[k] = [4][]float32{v.gamma.x, v.beta.x, v.mean, v.vari}
	}
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	defer f.Close()
	return gob.NewEncoder(f).Encode(d)
}
