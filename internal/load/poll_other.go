//go:build !linux

package load

import "speedmatrix/internal/stamp"

// systemPoller is nil: this system has no poller of ours.
func systemPoller() func(*stamp.Clock) (poller, error) { return nil }
