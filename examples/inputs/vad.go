package main

import (
	"context"
	"flag"
	"fmt"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
)

// startVAD cuts recordings into the frames that Silero VAD reads: context samples of the frame before, then the frame. The
// state of a frame is what the network itself made of the frames before, so that calibration sees states as they occur.
func startVAD(f *flag.FlagSet) maker {
	model := f.String("model", "", "the network, which computes the states")
	rate := f.Int("rate", 16000, "samples per second, 16000 or 8000")
	return func(files []string, out *sink) error {
		m, _, err := onnx.Open(*model)
		if err != nil {
			return fmt.Errorf("-model: %w", err)
		}
		defer m.Close()
		graph.InferShapes(m.Graph)
		s, err := exec.New(m.Graph, exec.Options{})
		if err != nil {
			return err
		}
		frame, before := *rate/1000*32, *rate/1000*4
		for _, file := range files {
			samples, err := readWAV(file, *rate)
			if err != nil {
				return err
			}
			runner := s.NewRunner()
			state := tensor.New(tensor.Float32, 2, 1, 128)
			window := make([]float32, before+frame)
			for i := 0; (i+1)*frame <= len(samples); i++ {
				copy(window, window[frame:])
				for k, v := range samples[i*frame:][:frame] {
					window[before+k] = float32(v) / 32768
				}
				sample := map[string]*tensor.Tensor{
					"input": tensor.FromF32(window, 1, before+frame), "state": state, "sr": tensor.FromI64([]int64{int64(*rate)}),
				}
				if err := out.arrays(base(file), sample); err != nil {
					return err
				}
				outputs, err := runner.Run(context.Background(), sample, nil)
				if err != nil {
					return err
				}
				state = outputs[1].Clone()
			}
		}
		return nil
	}
}
