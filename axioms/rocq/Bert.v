(* BERT of any number of layers, tokens, heads, channels and hidden units: theorem 25. *)
From Lrp Require Import Rules Attention Conservation.

(* The numbers of layer l: of a token t and a channel c, or of a head h as well; logits and attention
   weights are of two tokens t and s. *)
Inductive number :=
| Stream (l t c : nat) | Query (l h t c : nat) | Key (l h t c : nat) | Value (l h t c : nat)
| Logit (l h t s : nat) | Weight (l h t s : nat) | Read (l h t c : nat) | Attended (l t c : nat)
| Sum1 (l t c : nat) | Norm1 (l t c : nat) | Up (l t c : nat) | Active (l t c : nat)
| Down (l t c : nat) | Sum2 (l t c : nat).

Lemma number_dec (i j : number) : {i = j} + {i <> j}.
Proof. decide equality; apply Nat.eq_dec. Defined.

Section Bert.
Variables tokens width heads size hidden : nat.
Variable scale : R. (* 1/sqrt(size) in the logits *)
(* How much of number i there is in number j: a weight of a linear layer, what LayerNorm at its
   deviation makes of a channel, and for CP-LRP an attention weight.  There are no biases. *)
Variable coefficient : number -> number -> R.
Variable cp_lrp : bool. (* CP-LRP, or else AttnLRP *)

Definition linear_in (j : number) (xs : list number) := Linear number xs (map (coefficient j) xs) 0.
Definition added (x y : number) := Linear number [x; y] [1; 1] 0.
Definition all {A} (f : nat -> A) (n : nat) : list A := map f (seq 0 n).

Definition bert (j : number) : operation number :=
  match j with
  | Stream O _ _ => Input number
  | Stream (S l) t _ => linear_in j (all (Sum2 l t) width)
  | Query l _ t _ | Key l _ t _ | Value l _ t _ => linear_in j (all (Stream l t) width)
  | Logit l h t s => Products number scale 2 (all (fun c => [Query l h t c; Key l h s c]) size)
  | Weight l h t s =>
      if cp_lrp then Held number (all (Logit l h t) tokens)
      else Softmax number (all (Logit l h t) s) (Logit l h t s)
             (map (Logit l h t) (seq (S s) (tokens - S s)))
  | Read l h t c =>
      if cp_lrp then linear_in j (all (fun s => Value l h s c) tokens)
      else Products number 1 2 (all (fun s => [Weight l h t s; Value l h s c]) tokens)
  | Attended l t _ => linear_in j (flat_map (fun h => all (Read l h t) size) (seq 0 heads))
  | Sum1 l t c => added (Attended l t c) (Stream l t c)
  | Norm1 l t _ => linear_in j (all (Sum1 l t) width)
  | Up l t _ => linear_in j (all (Norm1 l t) width)
  | Active l t c => Activation number (Up l t c)
  | Down l t _ => linear_in j (all (Active l t) hidden)
  | Sum2 l t c => added (Down l t c) (Norm1 l t c)
  end.

Variables (v start rel : number -> R) (nodes : list number).

(* By CP-LRP no message goes to an attention weight. *)
Lemma weights_receive_nothing l h t s j :
  cp_lrp = true -> ~ In (Weight l h t s) (operands number (bert j)).
Proof.
  intros C. destruct j as [[|]| | | | | | | | | | | | | ]; simpl; rewrite ?C; simpl; intros M;
    repeat (apply in_concat in M as [? [? M]] || apply in_flat_map in M as [? [_ M]]);
    try (apply in_map_iff in M as [? [M _]]; discriminate); try (destruct M as [M|[M|[]]]; discriminate);
    try (destruct M as [M|[]]; discriminate); try easy.
  apply in_map_iff in H as [? [<- _]]. destruct M as [M|[M|[]]]; discriminate.
Qed.

Definition absorbed_by (c : cause) : R :=
  total number nodes (fun j => absorbed number v 0 c (bert j) (rel j)).

(* Theorem 25: "As epsilon -> 0 and without biases, in BERT layers of any width the softmax alone
   absorbs: by CP-LRP, which passes it by, they conserve exactly."  Here epsilon = 0,
   and [defined] says that no denominator is 0.  Kept is what the inputs Stream 0 t c receive;
   relevance may start anywhere but at attention weights. *)
Theorem theorem_25_only_the_softmax_absorbs :
  propagated number number_dec v 0 bert nodes start rel ->
  (forall j, In j nodes -> defined number v 0 (bert j)) ->
  (forall l h t s, start (Weight l h t s) = 0) ->
  total number nodes start = absorbed_by Kept + absorbed_by Taylor /\
  (cp_lrp = true -> absorbed_by Taylor = 0).
Proof.
  intros P N Z. split.
  - rewrite (kept_or_absorbed number number_dec v 0 bert nodes start rel P N). unfold all_absorbed.
    enough (E : forall c, c = Bias \/ c = Stabiliser \/ c = Constant -> absorbed_by c = 0)
      by (unfold absorbed_by in *; rewrite (E Bias), (E Stabiliser), (E Constant) by auto; ring).
    intros c C. apply no_sum. intros j J. destruct C as [->|[->| ->]];
      destruct j as [[|]| | | | | | | | | | | | | ]; simpl; try destruct cp_lrp eqn:B; simpl;
      rewrite ?push_0; unfold Rdiv; try ring.
    rewrite (proj2 (proj2 P) _ J), Z, Rplus_0_l. apply no_sum. intros j _. apply no_sum.
    intros [i q] M. apply in_combine_l in M. destruct (number_dec _ _) as [E|]; [|reflexivity].
    simpl in E. subst i. now apply (weights_receive_nothing _ _ _ _ _ B) in M.
  - intros C. apply no_sum. intros j _.
    destruct j as [[|]| | | | | | | | | | | | | ]; simpl; rewrite ?C; reflexivity.
Qed.
End Bert.
