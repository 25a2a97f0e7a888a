-- name: NextSequence :one
UPDATE counters SET n = n + 1 WHERE name = 'sequence' RETURNING n;

-- name: PutRun :exec
INSERT INTO runs (id, version, sequence, entry) VALUES ($1, $2, $3, $4)
ON CONFLICT (id) DO UPDATE SET version = excluded.version, sequence = excluded.sequence, entry = excluded.entry;

-- name: Run :one
SELECT version, sequence FROM runs WHERE id = $1;

-- name: RunsSince :many
SELECT id, version, sequence, entry FROM runs WHERE sequence > $1 ORDER BY sequence LIMIT $2;

-- name: PutVersion :exec
INSERT INTO versions (run, version, run_id, events_hash, entry, document, checks, files, why)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: SetVersion :exec
UPDATE versions SET entry = $3, checks = $4 WHERE run = $1 AND version = $2;

-- name: Version :one
SELECT entry, document, checks, files, why FROM versions WHERE run = $1 AND version = $2;

-- name: PutFile :exec
INSERT INTO files (hash, run, version) VALUES ($1, $2, $3) ON CONFLICT (hash, run, version) DO NOTHING;

-- name: FileUses :one
SELECT count(*) FROM files WHERE hash = $1;

-- name: RunsByEvents :many
SELECT DISTINCT run FROM versions WHERE events_hash = $1 ORDER BY run;

-- name: RunsByRunID :many
SELECT DISTINCT run FROM versions WHERE run_id = $1 ORDER BY run;

-- name: PutChange :exec
INSERT INTO changes (sequence, run, version, at, by_account, what, why) VALUES ($1, $2, $3, $4, $5, $6, $7);

-- name: Changes :many
SELECT sequence, version, at, by_account, what, why FROM changes WHERE run = $1 ORDER BY sequence;

-- name: DropVersions :exec
DELETE FROM versions WHERE run = $1;

-- name: DropFiles :exec
DELETE FROM files WHERE run = $1;

-- name: DropChanges :exec
DELETE FROM changes WHERE run = $1;

-- name: PutUpload :exec
INSERT INTO uploads (id, owner, hash, size, received, created_at, expires_at, run) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (id) DO UPDATE SET received = excluded.received, expires_at = excluded.expires_at, run = excluded.run;

-- name: Upload :one
SELECT * FROM uploads WHERE id = $1;

-- name: UploadByHash :one
SELECT * FROM uploads WHERE hash = $1 AND owner = $2 ORDER BY id DESC LIMIT 1;

-- name: ExpiredUploads :many
SELECT * FROM uploads WHERE expires_at < $1 ORDER BY id;

-- name: DropUpload :exec
DELETE FROM uploads WHERE id = $1;

-- name: Lock :execrows
UPDATE counters SET n = n WHERE name = 'sequence';

-- name: LatestVersion :one
SELECT CAST(coalesce(max(version), 0) AS BIGINT) FROM versions WHERE run = $1;
