package onnx

// topology is wired: what onnx-go decodes elsewhere is held equal to it by a test.
func (s *graphScan) topology() (*topology, error) { return s.wired() }
