// An OpenID Connect provider for tests: node-oidc-provider with its own forms, one client, any name and password.
//
//   node provider.mjs PORT CALLBACK
import { Provider } from 'oidc-provider';

const [port, callback] = process.argv.slice(2);
const issuer = `http://127.0.0.1:${port}`;
const provider = new Provider(issuer, {
  clients: [{ client_id: 'speedmatrix', client_secret: 'secret', redirect_uris: [callback], grant_types: ['authorization_code'], response_types: ['code'] }],
  pkce: { required: () => true },
  claims: { openid: ['sub'], profile: ['preferred_username'] },
  conformIdTokenClaims: false,
  findAccount: (ctx, id) => ({ accountId: id, claims: () => ({ sub: id, preferred_username: id }) }),
});
provider.listen(Number(port), '127.0.0.1', () => console.log(`${issuer} is ready`));
