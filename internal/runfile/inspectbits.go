package runfile

import (
	"encoding/binary"
	"errors"
)

// levels counts, of n rows of an optional column, those that have a value.
func levels(data []byte, n int) (there int, err error) {
	err = hybrid(data, 1, n, func(v uint64, times int) error {
		there += int(v) * times
		return nil
	})
	return there, err
}

// hybrid walks over n numbers of a width in bits, in runs of equal ones and in groups of eight (Parquet's RLE). each is told
// every number and how often it comes; what fills up the last group is not.
func hybrid(data []byte, width uint, n int, each func(v uint64, times int) error) error {
	if width > 32 {
		return errSize
	}
	for n > 0 || len(data) > 0 {
		head, used := binary.Uvarint(data)
		if used <= 0 || n <= 0 {
			return errSize
		}
		data = data[used:]
		count := head >> 1
		if count == 0 {
			return errSize
		}
		size := (width + 7) / 8
		if head&1 == 1 {
			if count > uint64(n+7)/8 || count*uint64(width) > uint64(len(data)) {
				return errSize
			}
			size = uint(count) * width
			for i := range min(8*int(count), n) {
				if err := each(packed(data, uint(i)*width, width), 1); err != nil {
					return err
				}
			}
			n -= 8 * int(count)
		} else {
			if count > uint64(n) || uint64(size) > uint64(len(data)) {
				return errSize
			}
			if err := each(packed(data, 0, width), int(count)); err != nil {
				return err
			}
			n -= int(count)
		}
		data = data[size:]
	}
	return nil
}

// packed is the number of so many bits that begins at a bit, least significant first. What lies behind the data is 0.
func packed(data []byte, at, width uint) (v uint64) {
	for have := uint(0); have < width; {
		i := (at + have) / 8
		if i >= uint(len(data)) {
			break
		}
		shift := (at + have) % 8
		v |= uint64(data[i]>>shift) << have
		have += 8 - shift
	}
	if width < 64 {
		v &= 1<<width - 1
	}
	return v
}

// deltas walks over n numbers of which each stands as the difference to the one before (Parquet's DELTA_BINARY_PACKED), and
// gives how many bytes they take. each, where it is set, is told every number; without it they must take all of the data.
func deltas(data []byte, n int, each func(int64) error) (used int, err error) {
	d := &deltaWalk{data: data, each: each}
	block, minis, total, first := d.uvarint(), d.uvarint(), d.uvarint(), d.varint()
	if d.failed || total != uint64(n) || !goodBlocks(block, minis) {
		return 0, errSize
	}
	if n > 0 {
		d.value = first
		if err := d.tell(); err != nil {
			return 0, err
		}
	}
	for left := n - 1; left > 0; {
		if left, err = d.block(int(block/minis), int(minis), left); err != nil {
			return 0, err
		}
	}
	if each == nil && d.at != len(data) {
		return 0, errSize
	}
	return d.at, nil
}

// goodBlocks says whether so many numbers of a block divide into miniblocks as Parquet has it.
func goodBlocks(block, minis uint64) bool {
	return block > 0 && block <= 1<<16 && block%128 == 0 && minis > 0 && minis <= 512 && block%minis == 0 && (block/minis)%32 == 0
}

type deltaWalk struct {
	data   []byte
	at     int
	value  int64
	failed bool
	each   func(int64) error
}

func (d *deltaWalk) uvarint() uint64 {
	v, n := binary.Uvarint(d.data[min(d.at, len(d.data)):])
	d.failed = d.failed || n <= 0
	d.at += max(n, 0)
	return v
}

func (d *deltaWalk) varint() int64 {
	v, n := binary.Varint(d.data[min(d.at, len(d.data)):])
	d.failed = d.failed || n <= 0
	d.at += max(n, 0)
	return v
}

func (d *deltaWalk) tell() error {
	if d.each == nil {
		return nil
	}
	return d.each(d.value)
}

// block walks over one block of miniblocks of so many numbers, and gives how many numbers are left.
func (d *deltaWalk) block(size, minis, left int) (int, error) {
	least := d.varint()
	if d.failed || d.at+minis > len(d.data) {
		return 0, errSize
	}
	widths := d.data[d.at : d.at+minis]
	d.at += minis
	for _, width := range widths {
		if left == 0 {
			break
		}
		bytes := size * int(width) / 8
		if width > 64 || bytes > len(d.data)-d.at {
			return 0, errSize
		}
		n := min(size, left)
		if d.each != nil {
			for i := range n {
				d.value += least + int64(packed(d.data[d.at:d.at+bytes], uint(i)*uint(width), uint(width)))
				if err := d.tell(); err != nil {
					return 0, err
				}
			}
		}
		d.at += bytes
		left -= n
	}
	return left, nil
}

var errZstd = errors.New("its compression does not hold together")

// checkZstd wants the data to be one frame of zstd (RFC 8878) of size bytes, so that unpacking it takes no more.
func checkZstd(data []byte, size int) error {
	if len(data) == 0 && size == 0 {
		return nil
	}
	if len(data) < 6 || binary.LittleEndian.Uint32(data) != 0xFD2FB528 {
		return errZstd
	}
	descriptor := data[4]
	single, sum := descriptor&0x20 != 0, descriptor&0x04 != 0
	at := 5
	if !single {
		at++ // the window
	}
	if descriptor&0x03 != 0 || descriptor&0x08 != 0 {
		return errZstd // with a dictionary of its own, or of a later form
	}
	width := []int{0, 2, 4, 8}[descriptor>>6]
	if width == 0 && single {
		width = 1
	}
	if at+width > len(data) {
		return errZstd
	}
	content := packed(data[at:], 0, uint(8*width))
	if width == 2 {
		content += 256
	}
	if width > 0 && content != uint64(size) {
		return errSize
	}
	most := len(data)
	if width == 0 {
		most = 1 // a small frame need not say how much it holds; a block holds 128 KiB at most
	}
	return zstdBlocks(data[at+width:], most, sum)
}

// zstdBlocks wants the blocks of one frame, at most so many, and nothing behind them.
func zstdBlocks(data []byte, most int, sum bool) error {
	for last := false; !last; most-- {
		if len(data) < 3 || most == 0 {
			return errZstd
		}
		head := uint32(data[0]) | uint32(data[1])<<8 | uint32(data[2])<<16
		last = head&1 == 1
		size := int(head >> 3)
		switch head >> 1 & 3 {
		case 1:
			size = 1 // one byte, repeated
		case 3:
			return errZstd
		}
		if size > len(data)-3 {
			return errZstd
		}
		data = data[3+size:]
	}
	if sum {
		if len(data) < 4 {
			return errZstd
		}
		data = data[4:]
	}
	if len(data) != 0 {
		return errZstd
	}
	return nil
}
