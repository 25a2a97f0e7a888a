package api

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"speedmatrix/internal/account"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/ingest"
)

// Archive is the body of an upload, read as it comes.
type Archive struct {
	body io.Reader
}

// Resolve takes the body before anything reads it.
func (a *Archive) Resolve(ctx huma.Context) []error {
	a.body = ctx.BodyReader()
	return nil
}

type receiptOutput struct {
	Location string `header:"Location"`
	Body     ingest.Receipt
}

// uploadView is an upload on its way, as its sender sees it.
type uploadView struct {
	ID        string    `json:"id"`
	Size      int64     `json:"size" doc:"Bytes of the whole archive."`
	Received  int64     `json:"received" doc:"Bytes that are here; go on from there."`
	SHA256    string    `json:"sha256"`
	ExpiresAt time.Time `json:"expires_at" doc:"When an unfinished upload is forgotten."`
	Run       string    `json:"run" doc:"The run that it became; empty before."`
}

func viewUpload(u catalog.Upload) uploadView {
	return uploadView{ID: u.ID, Size: u.Size, Received: u.Received, SHA256: u.Hash, ExpiresAt: u.ExpiresAt.UTC(), Run: u.Run}
}

type uploadOutput struct {
	Location string `header:"Location"`
	Offset   int64  `header:"Upload-Offset"`
	Body     uploadView
}

func uploadAnswer(u catalog.Upload) *uploadOutput {
	return &uploadOutput{Location: Prefix + "/uploads/" + u.ID, Offset: u.Received, Body: viewUpload(u)}
}

type beginInput struct {
	Body struct {
		Size   int64  `json:"size" minimum:"1"`
		SHA256 string `json:"sha256" pattern:"^[0-9a-f]{64}$"`
	}
}

// UploadName names an upload that was begun.
type UploadName struct {
	ID string `path:"id" pattern:"^[0-9a-z]{26}$"`
}

type appendInput struct {
	UploadName
	Archive
	Offset int64 `header:"Upload-Offset" required:"true" minimum:"0" doc:"Where this piece begins."`
}

// streamed lets an operation read its body itself, for as long as it takes.
func (s *Server) streamed(op huma.Operation, contentType string) huma.Operation {
	op.MaxBodyBytes, op.BodyReadTimeout = -1, -1
	op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
		contentType: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}},
	}}
	return protected(op)
}

func (s *Server) registerUploads() {
	const gzip, piece = "application/gzip", "application/octet-stream"
	check := s.streamed(s.operation("check-run", "POST /runs:check", "Dry run of an upload: all checks, nothing stored", checks), gzip)
	huma.Register(s.api, check, func(ctx context.Context, in *struct{ Archive }) (*receiptOutput, error) {
		receipt, err := s.o.Runs.Check(ctx, account.FromContext(ctx), in.body)
		if err != nil {
			return nil, s.worded(ctx, err)
		}
		return &receiptOutput{Body: *receipt}, nil
	})
	upload := s.streamed(s.operation("upload-run", "POST /runs", "Upload a run directory as tar.gz; it is a draft until it is published", uploads), gzip)
	upload.DefaultStatus = http.StatusCreated
	huma.Register(s.api, upload, func(ctx context.Context, in *struct{ Archive }) (*receiptOutput, error) {
		receipt, err := s.o.Runs.Receive(ctx, account.FromContext(ctx), in.body)
		return s.received(ctx, receipt, err)
	})
	begin := protected(s.operation("begin-upload", "POST /uploads", "Begin an upload that can be resumed", uploads))
	begin.DefaultStatus = http.StatusCreated
	huma.Register(s.api, begin, func(ctx context.Context, in *beginInput) (*uploadOutput, error) {
		u, err := s.o.Runs.Begin(ctx, account.FromContext(ctx), in.Body.Size, in.Body.SHA256)
		if err != nil {
			return nil, s.worded(ctx, err)
		}
		return uploadAnswer(u), nil
	})
	huma.Register(s.api, protected(s.operation("get-upload", "GET /uploads/{id}", "How much of an upload is here", reads)),
		func(ctx context.Context, in *UploadName) (*uploadOutput, error) {
			u, err := s.o.Runs.Upload(ctx, account.FromContext(ctx), in.ID)
			if err != nil {
				return nil, s.worded(ctx, err)
			}
			return uploadAnswer(u), nil
		})
	more := s.streamed(s.operation("append-upload", "PATCH /uploads/{id}", "The next piece of an upload", reads), piece)
	huma.Register(s.api, more, func(ctx context.Context, in *appendInput) (*uploadOutput, error) {
		u, err := s.o.Runs.Append(ctx, account.FromContext(ctx), in.ID, in.Offset, in.body)
		if err != nil {
			return nil, s.worded(ctx, err)
		}
		return uploadAnswer(u), nil
	})
	finish := protected(s.operation("finish-upload", "POST /uploads/{id}/finish", "Make a run of an upload that is whole; twice gives the same run", uploads))
	finish.DefaultStatus = http.StatusCreated
	huma.Register(s.api, finish, func(ctx context.Context, in *UploadName) (*receiptOutput, error) {
		receipt, err := s.o.Runs.Finish(ctx, account.FromContext(ctx), in.ID)
		return s.received(ctx, receipt, err)
	})
}

func (s *Server) received(ctx context.Context, receipt *ingest.Receipt, err error) (*receiptOutput, error) {
	if err != nil {
		return nil, s.worded(ctx, err)
	}
	return &receiptOutput{Location: s.o.Base + "/runs/" + receipt.ID, Body: *receipt}, nil
}
