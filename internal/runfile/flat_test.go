package runfile

import (
	"os"
	"path/filepath"
	"testing"

	"speedmatrix"
)

func TestEveryCellAndRepeatIsARowOfTheFlatTable(t *testing.T) {
	run := &speedmatrix.Run{ID: "r", Cells: []speedmatrix.Cell{
		{Phase: speedmatrix.PhaseDecode, ContextLabel: "0", Concurrency: 2, Status: speedmatrix.StatusValid, TotalTokensPerSecond: new(10.5), EnergyPerOutputToken: new(2.5), GPUPower: new(300.0), Interval95: &speedmatrix.Interval{Low: 10, High: 11}},
		{Phase: speedmatrix.PhaseDecode, ContextLabel: "0", Concurrency: 4, Status: speedmatrix.StatusLooped, TotalTokensPerSecond: new(99.0), EnergyPerOutputToken: new(3.5)},
	}, Repeats: []speedmatrix.Repeat{{Index: 2, Cells: []speedmatrix.Cell{{Phase: speedmatrix.PhaseDecode, ContextLabel: "0", Concurrency: 2, Status: speedmatrix.StatusValid, TotalTokensPerSecond: new(11.5)}}}}}
	path := filepath.Join(t.TempDir(), "cells.parquet")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := WriteCells(file, run); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	var rows []CellRow
	for row, err := range readTable[CellRow](path) {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	if len(rows) != 3 || *rows[0].Total != 10.5 || *rows[0].Low != 10 || rows[1].Total != nil || rows[1].Status != "Looped" || rows[2].Repeat != 2 || *rows[2].Total != 11.5 {
		t.Errorf("%+v", rows)
	}
	if *rows[0].OutputEnergy != 2.5 || *rows[0].GPUPower != 300 || rows[0].PromptEnergy != nil || rows[1].OutputEnergy != nil || rows[2].OutputEnergy != nil {
		t.Errorf("energy: %+v", rows)
	}
}
