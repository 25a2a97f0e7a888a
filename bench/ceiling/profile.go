package main

import (
	"os"
	"path/filepath"
	"runtime/pprof"
)

// profile records this process until end is called; in no folder it does nothing.
func profile(folder, name string) (end func(), err error) {
	if folder == "" {
		return func() {}, nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	cpu, err := os.Create(filepath.Join(folder, name+".cpu.pprof"))
	if err != nil {
		return nil, err
	}
	heap, err := os.Create(filepath.Join(folder, name+".heap.pprof"))
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		_ = cpu.Close()
		_ = pprof.WriteHeapProfile(heap) // a profile that cannot be written ends no measurement
		_ = heap.Close()
	}, nil
}
