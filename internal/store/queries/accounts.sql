-- name: PutAccount :exec
INSERT INTO accounts (id, provider, subject, name, role, created_at) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (id) DO UPDATE SET provider = excluded.provider, subject = excluded.subject, name = excluded.name, role = excluded.role;

-- name: Account :one
SELECT * FROM accounts WHERE id = $1;

-- name: AccountByName :one
SELECT * FROM accounts WHERE name = $1;

-- name: AccountByIdentity :one
SELECT * FROM accounts WHERE provider = $1 AND subject = $2;

-- name: Accounts :many
SELECT * FROM accounts ORDER BY name;

-- name: PutSession :exec
INSERT INTO sessions (hash, account, created_at, expires_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (hash) DO UPDATE SET expires_at = excluded.expires_at;

-- name: Session :one
SELECT * FROM sessions WHERE hash = $1;

-- name: DropSession :exec
DELETE FROM sessions WHERE hash = $1;

-- name: DropSessionsOf :exec
DELETE FROM sessions WHERE account = $1;

-- name: PutToken :exec
INSERT INTO tokens (id, hash, account, name, scopes, created_at, expires_at, used_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (id) DO UPDATE SET name = excluded.name, scopes = excluded.scopes, expires_at = excluded.expires_at, used_at = excluded.used_at;

-- name: TokenByHash :one
SELECT * FROM tokens WHERE hash = $1;

-- name: TokensOf :many
SELECT * FROM tokens WHERE account = $1 ORDER BY id;

-- name: DropToken :execrows
DELETE FROM tokens WHERE account = $1 AND id = $2;

-- name: PutDevice :exec
INSERT INTO devices (code_hash, user_code, scopes, expires_at, account, denied) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (code_hash) DO UPDATE SET account = excluded.account, denied = excluded.denied;

-- name: DeviceByCode :one
SELECT * FROM devices WHERE code_hash = $1;

-- name: DeviceByUserCode :one
SELECT * FROM devices WHERE user_code = $1;

-- name: DropDevice :exec
DELETE FROM devices WHERE code_hash = $1;

-- name: DropExpiredSessions :exec
DELETE FROM sessions WHERE expires_at < $1;

-- name: DropExpiredDevices :exec
DELETE FROM devices WHERE expires_at < $1;

-- name: DropExpiredTokens :exec
DELETE FROM tokens WHERE expires_at > 0 AND expires_at < $1;
